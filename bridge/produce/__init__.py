"""What a Produce does: the batches of a request take their places in the logs of their partitions."""
