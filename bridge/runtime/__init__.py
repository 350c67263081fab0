"""What all share of the process: the event loop and turns on it, futures, deadlines, threads, memory."""
