"""In which namespace of Pulsar a client works: decided once for each connection, by what is known of the client.

Nothing that a client sends later has a part in it. What leads nowhere is refused: a client that no rule fits, unless
that is allowed, and one whose rule fits but whose name makes no namespace.
"""

import re
from typing import Final

from bridge.config.tenants import RuleKind, TenantRule, TenantSettings, is_namespace, parse_allowed, parse_rules
from bridge.security.principal import Principal
from bridge.security.sasl.mechanism import Done, Exchange, Failed, Mechanism, Step

_NO_NAMESPACE: Final = "no rule of tenants.rules leads this principal to a namespace"


class Tenants:
    """The rules by which one bridge finds a client's namespace."""

    def __init__(self, settings: TenantSettings, own: str, state: str = "") -> None:
        """`own`: the bridge's own namespace, whose clients may administer users and permissions; `state`: where those
        are kept, and no client works."""
        self.own = own
        self._state = state
        self.max_namespaces = settings.max_namespaces
        self._rules = parse_rules(settings.rules)
        self._allowed = parse_allowed(settings.namespaces)
        self._required = settings.required

    def namespace(
        self, principal: Principal | None, listener: str, client_id: str, user_name: str | None = None
    ) -> str | None:
        """Where a client works; None: nowhere, it is refused.

        `principal`: whom it has proven to be, None if it has proven nothing. Only then its client id is looked at.
        `user_name`: the name that it has given to PLAIN.
        """
        found = self._rule(principal, listener, client_id, user_name)
        if found is None:
            return None if self._required else self.own
        rule, match = found
        namespace = rule.made_of(match)
        return namespace if namespace is not None and self._may_be(rule, namespace) else None

    def administers(
        self, principal: Principal | None, listener: str, client_id: str, user_name: str | None = None
    ) -> bool:
        """Whether a client may ask for what is the whole cluster's: a rule leads it to the bridge's own namespace, by
        more than what it calls itself."""
        found = self._rule(principal, listener, client_id, user_name)
        if found is None or found[0].kind not in (RuleKind.PRINCIPAL, RuleKind.LISTENER):
            return False
        return self.namespace(principal, listener, client_id, user_name) == self.own

    def is_reachable(self, namespace: str) -> bool:
        """Whether some client may be led there: what another node says of its client is held against it."""
        if namespace == self.own:
            return True
        rules = (rule for rule in self._rules if rule.may_lead_to(namespace, self._allowed))
        return any(self._may_be(rule, namespace) for rule in rules)

    @property
    def trusts_client_ids(self) -> bool:
        """Whether a rule goes by what clients say of themselves."""
        return any(rule.kind is RuleKind.CLIENT_ID for rule in self._rules)

    def _rule(
        self, principal: Principal | None, listener: str, client_id: str, user_name: str | None
    ) -> "tuple[TenantRule, re.Match[str]] | None":
        looked_at = {RuleKind.LISTENER: listener}
        if principal is None:
            looked_at[RuleKind.CLIENT_ID] = client_id
        else:
            looked_at[RuleKind.PRINCIPAL] = str(principal)
            if user_name is not None:
                looked_at[RuleKind.USER_NAME] = user_name
        for rule in self._rules:
            text = looked_at.get(rule.kind)
            match = None if text is None else rule.fit(text)
            if match is not None:
                return rule, match
        return None

    def _may_be(self, rule: TenantRule, namespace: str) -> bool:
        if not is_namespace(namespace) or namespace == self._state:
            return False
        if not rule.captures:
            return True
        # a client's name leads to the bridge's own namespace never: its clients change users and permissions
        return namespace != self.own and any(one.fullmatch(namespace) for one in self._allowed)


class TenantMechanism:
    """A mechanism that lets in only those who have a namespace at this listener."""

    def __init__(self, mechanism: Mechanism, tenants: Tenants, listener: str) -> None:
        self.name = mechanism.name
        self._mechanism = mechanism
        self._tenants = tenants
        self._listener = listener

    def begin(self) -> "TenantExchange":
        """A new log-in."""
        return TenantExchange(self._mechanism.begin(), self._tenants, self._listener)


class TenantExchange:
    """One log-in, which fails where the client has no namespace."""

    def __init__(self, exchange: Exchange, tenants: Tenants, listener: str) -> None:
        self._exchange = exchange
        self._tenants = tenants
        self._listener = listener
        self._is_over = False

    async def step(self, data: bytes, now: float) -> Step:
        """As the mechanism's, but who has no namespace has failed."""
        if self._is_over:
            return Failed("the exchange is over")
        step = await self._exchange.step(data, now)
        if not isinstance(step, Done):
            return step
        if self._tenants.namespace(step.principal, self._listener, "", step.user_name) is None:
            self._is_over = True
            return Failed(_NO_NAMESPACE, step.principal.name)
        return step
