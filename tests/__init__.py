"""The tests of bridge; each directory mirrors a part of it."""
