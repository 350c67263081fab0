"""The schedule explorer; see README.md here."""
