"""The lock of Pulsar's jars."""

from bridge.standalone.jars import locked


def test_the_lock_names_every_jar_once_and_the_pinned_broker() -> None:
    names = [jar.name for jar in locked()]
    assert len(names) == len(set(names)) == 317
    assert "pulsar-broker-4.0.7.jar" in names
    assert "netty-transport-native-epoll-4.1.127.Final-linux-x86_64.jar" in names
