"""User names of distinguished names. What Kafka does was taken from its SslPrincipalMapper and java.util.regex."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.security.mapping import NoMatchingRule, PrincipalMapping
from tests.support.effort import examples

ALICE = "CN=Alice,OU=Payments,O=Example,C=NO"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", ALICE),
        ("RULE:^CN=(.*?),OU=Payments.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=Payments.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=Payments.*$/$1/U", "ALICE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/", "Alice@Payments"),
        ("RULE:^CN=(.*?),OU=Sales.*$/$1/,DEFAULT", ALICE),
        ("RULE:^CN=(.*?),OU=Sales.*$/sales-$1/, RULE:^CN=(.*?),OU=Pay.*$/pay-$1/L ,DEFAULT", "pay-alice"),
        (",, , RULE:^CN=(.*?),.*$/$1/ , ,", "Alice"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "alice"),
        ("RULE:^CN=([^,]+)(?:,.*)$/$12/", "Alice2"),
        ("RULE:^CN=[^,]+,.*$/$1/", "$1"),
        ("RULE:^CN=([^,]+),.*$/$1$2$0/", "Alice$2" + ALICE),
        (r"RULE:^CN=([^,]+),.*$/a\/\$1\\/", "a/$1\\"),
        (r"RULE:^CN=([^,]+)(x)?,.*$/$1$2/", "Alice"),
        ("RULE:.*/x/", "xx"),  # the empty end is found, too
    ],
)
def test_the_first_rule_that_fits_makes_the_name(rules: str, name: str) -> None:
    assert PrincipalMapping(rules).name(ALICE) == name


def test_commas_in_a_pattern_do_not_end_a_rule() -> None:
    rules = r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT"
    assert PrincipalMapping(rules).name(r"CN=Berg\, Anna,OU=Payments") == r"Berg\, Anna"


@pytest.mark.parametrize("rules", ["", ",,", "RULE:^CN=Bob,.*$/bob/"])
def test_where_no_rule_fits_there_is_no_name(rules: str) -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalMapping(rules).name(ALICE)


def test_an_empty_name_is_no_ones() -> None:
    with pytest.raises(NoMatchingRule, match="empty"):
        PrincipalMapping("RULE:CN=[^,]+,.*//, DEFAULT").name(ALICE)
    with pytest.raises(NoMatchingRule, match="empty"):
        PrincipalMapping().name("")


def test_a_pattern_fits_the_whole_name_or_not_at_all() -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalMapping("RULE:CN=Alice/alice/").name(ALICE)
    with pytest.raises(NoMatchingRule):  # Java's $ would overlook a line end
        PrincipalMapping("RULE:^CN=(.*)$/$1/").name("CN=alice\n")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULT/L",
        "RULE:^CN=(.*?)$/$1",
        "rule:^CN=(.*?)$/$1/",
        "RULE:^CN=(.*?)$/$1/L/U",
        "RULE:^CN=(.*?)$/L",
        "RULE:^CN=(.*?)$/$1/X",
        "RULE:^CN=(.*$/$1/",
        "RULE:^(?!CN=admin).*$/$0/",
        r"RULE:^CN=(.*),OU=\1$/$1/",
        "RULE:^CN=(.*)$/${name}/",
        "RULE:^CN=(.*)$/$/",
    ],
)
def test_a_wrong_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"not a (rule|pattern)"):
        PrincipalMapping(rules)


NAMES = st.text("CN=OUab,", max_size=12)


@given(
    name=NAMES, pattern=st.sampled_from(["(a*)(b*)", "CN=(.*?)", "(.*?),(.*)", "(a|b)*", ".*", "(CN=)?(.*?)", "[^,]*"])
)
@settings(max_examples=examples(300))
def test_every_place_is_replaced_as_java_finds_them(name: str, pattern: str) -> None:
    """Not as Python's `re.sub`, which looks for more where a match was empty."""
    groups = re.compile(pattern).groups
    if re.fullmatch(pattern, name):
        expected, end, start = "", 0, 0
        while start <= len(name) and (match := re.compile(pattern).search(name, start)):
            first = (match[1] or "") if groups else "$1"
            expected += f"{name[end : match.start()]}<{first}|{match[0]}>"
            end = match.end()
            start = end if match[0] else end + 1
        assert PrincipalMapping(f"RULE:{pattern}/<$1|$0>/").name(name) == expected + name[end:]


@given(
    rules=st.text()
    | st.lists(st.sampled_from(["RULE:", "/", "$1", "(.*)", ",", "L", "DEFAULT", "\\", " "])).map("".join)
)
@settings(max_examples=examples(300))
def test_any_text_is_rules_or_a_value_error(rules: str) -> None:
    try:
        PrincipalMapping(rules).name(ALICE)
    except (ValueError, NoMatchingRule) as error:
        assert str(error)
