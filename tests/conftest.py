"""What holds for every test: the same surroundings everywhere, and random tests that can be repeated."""

from __future__ import annotations

import os
import random
import signal

import pytest
from hypothesis import HealthCheck, settings

# Git reads settings from the machine and the user; a hook or a signing key of theirs must not decide a test.
os.environ |= {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.invalid",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.invalid",
}
# Inside a git hook these point into the repository that is being committed to. The others name a store of the user.
for _name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
    os.environ.pop(_name, None)
for _name in ("STRATAFLOW_DIR", "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR"):
    os.environ.pop(_name, None)

# A shell that starts this in the background makes it deaf to Ctrl-C, and all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: on a busy machine a slow example says nothing. A failure prints what repeats it.
# How slowly examples are made says nothing of what is tested, and depends on the load and on the seed.
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("dev", deadline=None, print_blob=True, suppress_health_check=_SLOW_IS_FINE)
# No database: what an earlier run found must not decide this one.
settings.register_profile(
    "ci",
    deadline=None,
    print_blob=True,
    derandomize=False,
    database=None,
    suppress_health_check=_SLOW_IS_FINE,
)
_IN_CI = bool(os.environ.get("CI"))
settings.load_profile("ci" if _IN_CI else "dev")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Drawn here and shown in the header, so that a run on a build machine can be repeated as a whole.
    if _IN_CI and config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("--hypothesis-seed")
    return f"hypothesis seed: {'drawn by each test' if seed is None else f'--hypothesis-seed={seed}'}"
