"""Tests of the settings' parts."""
