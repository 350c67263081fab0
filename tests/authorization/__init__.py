"""Every API by every right, allowed and denied: what the bridge answers is what a real Kafka answered.

A right is a principal of its own with its access control entries (`rights`). Each request (`requests`) is sent in the
name of each of them, and each answer is written as one line (`answers`). `python -m tests.authorization` asks a real
Kafka and keeps its answers in `kafka.json`; `differences` says where the bridge answers otherwise, and why.
"""
