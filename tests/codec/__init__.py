"""Tests of the codec's twins and of the decompressors."""
