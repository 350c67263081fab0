"""What Spark, and everything else that keeps offsets, relies on; a real Apache Kafka must pass the same tests."""
