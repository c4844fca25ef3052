"""Folders of skills: which files count, in which order, and who wins on equal names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.file_trees import plant, skill_text
from kit.holds import holds
from kit.pi_cases import cases
from strataflow.runtime.resources.diagnoses import ResourceDiagnosis
from strataflow.runtime.resources.finding import ResourcePaths, Source, sources_of
from strataflow.runtime.resources.scanning import scan_skills
from strataflow.runtime.resources.skills import Skill, list_skills

_TABLE = cases("skills")
_LONG_NAME = "n" * 65
_TREE = {
    "user/skills/BadChars/SKILL.md": skill_text("x", "name: Bad_Chars"),
    "user/skills/badyaml/SKILL.md": "---\nname: [unclosed\n---\n",
    "user/skills/blankdesc/SKILL.md": skill_text("'  '"),
    "user/skills/dash/SKILL.md": skill_text("x", "name: -dash-"),
    "user/skills/double/SKILL.md": skill_text("x", "name: dou--ble"),
    "user/skills/extra/SKILL.md": skill_text("unknown fields ok", "license: MIT", "allowed-tools: [a, b]"),
    "user/skills/good/SKILL.md": skill_text("A good skill"),
    "user/skills/good/nested/SKILL.md": skill_text("never seen"),
    "user/skills/group/inner/SKILL.md": skill_text("grouped"),
    "user/skills/group/loose.md": skill_text("loose, not in a root"),
    "user/skills/hiddenskill/SKILL.md": skill_text("hidden", "disable-model-invocation: true"),
    "user/skills/longdesc/SKILL.md": skill_text("d" * 1025),
    "user/skills/longname/SKILL.md": skill_text("x", f"name: {_LONG_NAME}"),
    "user/skills/mismatch/SKILL.md": skill_text("x", "name: other-name"),
    "user/skills/multi/SKILL.md": skill_text("|\n  line one\n  line two"),
    "user/skills/nodesc/SKILL.md": "---\nname: nodesc\n---\n",
    "user/skills/nofm/SKILL.md": "just text\n",
    "user/skills/noname/SKILL.md": skill_text("name from directory"),
    "user/skills/rootfile.md": skill_text("root md file"),
    "user/skills/strtrue/SKILL.md": skill_text("string true", 'disable-model-invocation: "true"'),
    "user/skills/xml/SKILL.md": skill_text("'a < b & c > d \"q\"'"),
    "user/skills/.dot/SKILL.md": skill_text("in a hidden folder"),
    "user/skills/node_modules/pkg/SKILL.md": skill_text("in node_modules"),
    "user/skills/.gitignore": "ignored/\n",
    "user/skills/ignored/SKILL.md": skill_text("ignored"),
    "proj/.pi/skills/good/SKILL.md": skill_text("shadowed"),
    "proj/.pi/skills/projonly/SKILL.md": skill_text("p"),
    "single/tool.md": skill_text("explicit file"),
    "single/readme.txt": "text",
}
_SCOPES = {"user": "user", "project": "project", "temporary": "given"}


def _scan(root: Path, *paths: str, scope: str = "given") -> tuple[list[Skill], list[ResourceDiagnosis]]:
    return scan_skills(Source(str(root / path), scope) for path in paths)  # type: ignore[arg-type]


def _names(root: Path, *paths: str) -> list[str]:
    return [skill.name for skill in _scan(root, *paths)[0]]


@holds("AC-138", "AC-144")
def test_a_folder_of_all_kinds_is_read_as_the_original_does(tmp_path: Path) -> None:
    plant(tmp_path, _TREE)
    sources = [
        Source(f"{tmp_path}/user/skills", "user", is_named=False),
        Source(f"{tmp_path}/proj/.pi/skills", "project", is_named=False),
        *(Source(f"{tmp_path}/{path}") for path in ("single/tool.md", "single/readme.txt", "nope")),
    ]
    skills, diagnoses = scan_skills(sources)
    assert len(skills) == len(_TABLE["skills"])
    for skill, expected in zip(skills, _TABLE["skills"], strict=True):
        assert skill.path == f"{tmp_path}/{expected['file']}"
        assert skill.folder == f"{tmp_path}/{expected['baseDir']}"
        assert skill.name == expected["name"]
        assert skill.is_hidden == expected["disableModelInvocation"]
        assert skill.scope == _SCOPES[expected["scope"]]
        if not expected["description"].endswith("(1025)"):
            assert skill.description == expected["description"]
    assert len(diagnoses) == len(_TABLE["diagnostics"])
    for diagnosis, expected in zip(diagnoses, _TABLE["diagnostics"], strict=True):
        assert diagnosis.path == f"{tmp_path}/{expected['file']}"
        assert diagnosis.kind == expected["type"]
        if "badyaml" in expected["file"]:
            assert "line 1" in diagnosis.message  # the parser's own words
        else:
            assert diagnosis.message == expected["message"]
    assert diagnoses[-1].winner == f"{tmp_path}/{_TABLE['diagnostics'][-1]['collision']['winnerPath']}"


def test_the_listing_of_skills_is_that_of_the_original(tmp_path: Path) -> None:
    listed = [f"user/skills/{name}/SKILL.md" for name in ("good", "hiddenskill", "multi", "xml")]
    plant(tmp_path, {path: _TREE[path] for path in listed})
    skills, _ = _scan(tmp_path, "user/skills")
    listing = list_skills(skills).replace(str(tmp_path), "/t/skills")
    assert listing[listing.index("<available_skills>") :] == _TABLE["listing"]


@holds("AC-145")
def test_precedence_is_that_of_the_original_application(tmp_path: Path) -> None:
    table = cases("skill-precedence")
    places = [found["file"] for found in table["skills"][:1]] + table["collisionsInOrder"]
    plant(tmp_path, {path: skill_text(f"'{path}'") for path in places})
    plant(
        tmp_path,
        {
            "repo/.git/HEAD": "ref",
            "repo/sub/.pi/skills/loose2.md": skill_text("root md in pi dir"),
            "repo/.agents/skills/loose.md": skill_text("loose file in a shared folder"),
            ".agents/skills/y/SKILL.md": skill_text("above the repository"),
        },
    )
    named = ResourcePaths(
        given=[f"{tmp_path}/cli"], project=[f"{tmp_path}/setproj"], user=[f"{tmp_path}/setuser/x/SKILL.md"]
    )
    cwd, agent, home = (f"{tmp_path}/{name}" for name in ("repo/sub", "agent", "home"))
    skills, diagnoses = scan_skills(sources_of("skills", cwd=cwd, agent_dir=agent, home=home, named=named))
    assert [skill.path for skill in skills] == [f"{tmp_path}/{found['file']}" for found in table["skills"]]
    assert [found.path for found in diagnoses] == [f"{tmp_path}/{path}" for path in table["collisionsInOrder"]]
    assert {(found.kind, found.message, found.winner) for found in diagnoses} == {
        ("collision", 'name "x" collision', skills[0].path)
    }
    alone = scan_skills(sources_of("skills", cwd=cwd, agent_dir=agent, home=home, named=named, has_discovery=False))
    assert [skill.path for skill in alone[0]] == [f"{tmp_path}/cli/x/SKILL.md"]


def test_packages_come_before_the_project_or_after_the_user() -> None:
    named = ResourcePaths(packages=["late"], packages_first=["early"], given=["~/hand"])
    sources = sources_of("skills", cwd="/c", agent_dir="/a", home="/h", named=named)
    paths = [source.path for source in sources]
    assert paths[:2] == ["/c/early", "/c/.pi/skills"]
    assert paths[-4:] == ["/a/skills", "/h/.agents/skills", "/c/late", "/h/hand"]


def test_a_file_reached_by_several_links_is_one_skill(tmp_path: Path) -> None:
    plant(tmp_path, {"real/a/SKILL.md": skill_text()})
    (tmp_path / "linked").symlink_to("real")
    (tmp_path / "real" / "b").symlink_to("a")
    # Two of them: whoever walked in circles would do so in more ways than can be walked.
    (tmp_path / "real" / "loop").symlink_to(".")
    (tmp_path / "real" / "other-loop").symlink_to("../real")
    (tmp_path / "real" / "broken").symlink_to("nowhere")
    skills, diagnoses = _scan(tmp_path, "linked", "real")
    assert [skill.path for skill in skills] == [f"{tmp_path}/linked/a/SKILL.md"]
    assert diagnoses == []


def test_ignore_files_hold_where_they_lie_and_below(tmp_path: Path) -> None:
    skill = skill_text()
    plant(
        tmp_path,
        {
            "s/.gitignore": "drafts/\n!drafts/kept\nsub/only\n",
            "s/.fdignore": "*.bak\n",
            "s/drafts/a/SKILL.md": skill,
            "s/sub/only/SKILL.md": skill,
            "s/sub/other/only/SKILL.md": skill,
            "s/x.bak/SKILL.md": skill,
            "s/deep/.ignore": "/old\n!new\n",
            "s/deep/old/SKILL.md": skill,
            "s/deep/new/SKILL.md": skill,
            "s/high/old/SKILL.md": skill,
            "s/file/SKILL.md": skill,
            "s/file/.gitignore": "SKILL.md\n",
            "s/file/inner/SKILL.md": skill,
        },
    )
    # Above the walk nothing is asked.
    plant(tmp_path, {".gitignore": "*\n"})
    assert [found.message for found in _scan(tmp_path, "s")[1]] == []
    assert sorted(_names(tmp_path, "s")) == ["new", "old", "only"]


@pytest.fixture
def deep_folder(tmp_path: Path) -> Iterator[Path]:
    """Folders in each other, 1,100 of them. Taken away again here: Python's own way to remove a tree recurses."""
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    yield tmp_path
    subprocess.run(["rm", "-rf", f"{tmp_path}/d"], check=True)


def test_a_walk_goes_deeper_than_python_calls(deep_folder: Path) -> None:
    plant(deep_folder, {"z/SKILL.md": skill_text()})
    assert _names(deep_folder, ".") == ["z"]


def test_what_cannot_be_read_is_told_and_hides_nothing_else(tmp_path: Path) -> None:
    plant(tmp_path, {"s/good/SKILL.md": skill_text(), "s/latin/SKILL.md": ""})
    (tmp_path / "s/latin/SKILL.md").write_bytes(b"---\ndescription: \xe9\n---\n")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "s" / "self").symlink_to("self")
    skills, diagnoses = _scan(tmp_path, "s", "pipe.md", "s/self/x")
    assert [skill.name for skill in skills] == ["good"]
    told = {found.path.removeprefix(f"{tmp_path}/"): (found.kind, found.message) for found in diagnoses}
    assert told["s/latin/SKILL.md"][0] == "unreadable"
    assert "no UTF-8 at byte 17" in told["s/latin/SKILL.md"][1]
    assert told["pipe.md"] == ("warning", "skill path is not a markdown file")
    assert told["s/self/x"][0] == "unreadable"
