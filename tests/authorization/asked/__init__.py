"""The requests of the matrix, by what they are about."""
