"""`bin/pulsar-admin`, as pages and `bridge check` name its commands: run against a real Pulsar's admin API."""

from __future__ import annotations

import argparse
import shlex

from tests.support.secured_pulsar import SecuredPulsar


def pulsar_admin(secured: SecuredPulsar, command: str) -> None:
    """Run it as the super-user; AssertionError where Pulsar refuses, SystemExit where it is no command."""
    program, *words = shlex.split(command)
    assert program.removeprefix("bin/") == "pulsar-admin", command
    login = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("auth-plugin", "auth-params"):
        login.add_argument(f"--{option}")
    _, (noun, verb, *arguments) = login.parse_known_args(words)
    parser = argparse.ArgumentParser(prog=command, allow_abbrev=False)
    parser.add_argument("subject")
    for option in ("role", "actions", "admin-roles"):
        parser.add_argument(f"--{option}")
    told = parser.parse_args(arguments)
    match noun, verb:
        case "tenants", "create":
            secured.admin("PUT", f"tenants/{told.subject}", {"adminRoles": [], "allowedClusters": ["standalone"]})
        case "tenants", "update":
            there = secured.admin("GET", f"tenants/{told.subject}")
            assert isinstance(there, dict)
            secured.admin("POST", f"tenants/{told.subject}", there | {"adminRoles": told.admin_roles.split(",")})
        case "namespaces", "create":
            secured.admin("PUT", f"namespaces/{told.subject}")
        case "namespaces", "grant-permission":
            secured.grant(told.subject, told.role, told.actions.split(","))
        case "namespaces", "revoke-permission":
            secured.revoke(told.subject, told.role)
        case _:
            raise AssertionError(f"nothing here knows {noun} {verb}: {command}")
