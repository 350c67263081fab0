"""Records copied and appended elsewhere, so that an interrupted job goes on where it was."""
