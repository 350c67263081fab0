"""One module for each client family; all offer `Client`."""
