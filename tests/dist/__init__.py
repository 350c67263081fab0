"""The packages of a release: how they are built and checked (`make dist`), and what they hold."""
