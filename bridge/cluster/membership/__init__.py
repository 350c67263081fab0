"""Which nodes there are and what each of them leads, as state machines and values. No I/O, no clock."""
