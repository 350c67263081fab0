"""The tests of the standalone: real processes, real files, real ports."""
