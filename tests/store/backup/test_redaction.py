"""Redaction: no form of a secret survives it, and what is no secret does."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.holds import holds
from strataflow.store.backup import redactor, secrets_of, secrets_of_header, secrets_of_url

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=24)


def forms(secret: str, before: str) -> list[str]:
    data = f"{before}{secret}".encode()
    return [
        secret,
        quote(secret, safe=""),
        shlex.quote(secret),
        json.dumps(secret),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
    ]


@holds("store 5.4.6")
@given(SECRETS, st.text(st.sampled_from("abc:"), max_size=4))
def test_no_form_of_a_known_secret_survives(secret: str, before: str) -> None:
    redact = redactor([secret])
    for form in forms(secret, before):
        said = redact(f"fatal: {form} is wrong")
        assert secret not in said
        # Of base64 a few characters at its ends may stay, which neighbours have a share in.
        assert form not in said
        assert said.startswith("fatal: ")


@holds("case store 122", "store 5.4.6")
def test_a_url_in_a_text_loses_user_info_and_secret_queries_without_being_known() -> None:
    said = redactor()("unable to access 'https://u:p@h/x?token=abc&page=2&auth=d': no")
    assert said == "unable to access 'https://***@h/x?token=***&page=2&auth=***': no"
    assert redactor()("git@host:x and a@b") == "git@host:x and a@b"
    assert redactor()("Authorization: Basic dTpw\nnext") == "Authorization: ***\nnext"


@holds("store 5.4.6")
@pytest.mark.parametrize(
    "url",
    [
        "https://user:c4n/4ry+x=@host/x.git",
        "https://host/x.git?private_token=c4n4ry",
        "https://host/x.git?a=b&X-Amz-Signature=c4n4ry&c=d",
        "https://host/x.git?api_key=c4n4ry",
    ],
)
def test_a_url_that_is_not_as_it_should_be_hides_its_secrets_too(url: str) -> None:
    for known in (set(), secrets_of_url(url)):
        text = redactor(known)(f"fatal: unable to access '{url}': URL using bad/illegal format")
        assert "c4n" not in text
        assert "host/x.git" in text
        assert text.endswith("': URL using bad/illegal format")
    assert redactor(secrets_of_url("https://host:8080/a@b"))("at https://host:8080/a@b") == "at https://host:8080/a@b"


def test_secrets_are_found_wherever_a_configuration_keeps_them() -> None:
    pair = base64.b64encode(b"user:hidden-one").decode()
    config = {
        "remote.origin.url": ["https://u:p%40ssword@host/x"],
        "remote.other.pushurl": ["https://host/x?access_token=query-token"],
        "http.https://host/.extraheader": [f"Authorization: Basic {pair}"],
        "url.https://name:rewritten@host/.insteadof": ["short:"],
        "user.name": ["Tester"],
    }
    found = secrets_of(config)
    assert {"p%40ssword", "p@ssword", "query-token", pair, "hidden-one", "rewritten"} <= found
    assert "Tester" not in found
    assert secrets_of_url("ssh://git@host/x") == set()
    assert "abcdefgh1" in secrets_of_header("X-Token: abcdefgh1")


def test_a_long_text_is_redacted_before_it_is_cut() -> None:
    secret = "s3cr3t-" * 6
    text = f"{secret} and {'x' * 980}"
    assert "s3cr3t" not in redactor([secret]).tail(text)
    assert len(redactor().tail("y" * 5_000)) == 1_000
