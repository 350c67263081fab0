"""Several bridge processes on one machine, each a node of the cluster: started, watched and shown by one supervisor."""
