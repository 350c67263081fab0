"""Decoders under coverage-guided fuzzing: `make fuzz`; what each promises of any bytes is its target's check."""
