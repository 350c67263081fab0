"""Bad requests, table by table, and what Apache Kafka says to each."""
