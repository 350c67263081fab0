"""How a client logs in is read from Kafka's own properties, or refused."""

from __future__ import annotations

import pytest

from bridge.pipeline.endpoint import client_settings
from bridge.pipeline.errors import Usage


def test_a_login_is_read_as_kafkas_tools_take_it() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="a\\"b";'
    settings = client_settings(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas,
            "ssl.truststore.location": "/ca.pem",
            "ssl.truststore.type": "PEM",
            "ssl.endpoint.identification.algorithm": "",
            "fetch.max.bytes": "1",
        }
    )
    assert settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "u",
        "sasl_plain_password": 'a"b',
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


def test_a_client_certificate_is_file_and_key() -> None:
    settings = client_settings(
        {"ssl.keystore.location": "/me.pem", "ssl.keystore.type": "PEM", "ssl.key.password": "k"}
    )
    assert settings == {"ssl_certfile": "/me.pem", "ssl_keyfile": "/me.pem", "ssl_password": "k"}


@pytest.mark.parametrize(
    "properties",
    [{"ssl.truststore.location": "/ca.jks"}, {"sasl.jaas.config": "org.OAuthBearerLoginModule required;"}],
)
def test_what_cannot_be_understood_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(Usage):
        client_settings(properties)
