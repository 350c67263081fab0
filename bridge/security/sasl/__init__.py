"""The mechanisms of log-in as state machines, and what they ask of users. No I/O."""
