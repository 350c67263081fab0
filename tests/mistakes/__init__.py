"""Mistakes that people make, each made for real, and what they are told: docs/mistakes.md is written of it."""
