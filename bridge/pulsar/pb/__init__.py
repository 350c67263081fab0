"""Generated from proto/PulsarApi.proto: `from bridge.pulsar.pb import PulsarApi_pb2 as pb`."""
