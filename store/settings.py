"""The operator's settings in the root ``config.json`` (store 7). Read once, never written."""

from __future__ import annotations

import attrs

from .algebra import HISTORY_LIMIT_DEFAULT, HISTORY_LIMIT_MAX, CallError, ConfigError, StoreError, shown
from .codec import parse_strict
from .documents import MODES, Mode, is_count
from .ports import Disk

_BOOLEANS = ("logging", "showSuccessfulPatches", "autoStart", "passiveBootstrap", "passiveTools")


@attrs.frozen
class Settings:
    """Root ``config.json`` (store 7). ``mode`` None: nothing was configured."""

    mode: Mode | None = None
    logging: bool = False
    show_successful_patches: bool = True
    history_limit: int = HISTORY_LIMIT_DEFAULT
    # What an existing session without a usable mode falls back to (store 7.4).
    inactive_mode: Mode = "off"


def read_settings(disk: Disk, path: str) -> Settings:
    """Read the file of the settings. One that is there and can not be read is E_CONFIG too (store 7.1)."""
    try:
        data = disk.read(path)
    except StoreError as error:
        if error.data.get("path") != path:
            raise  # a folder on the way: no trouble of the settings
        raise ConfigError("E_CONFIG", error.message, **error.data) from error
    return settings_from(path, data)


def settings_from(path: str, data: bytes | None) -> Settings:
    """Read the settings. Missing means defaults; anything wrong is E_CONFIG, never a fallback (store 7.1)."""
    if data is None:
        return Settings()
    try:
        document = parse_strict(data)
    except CallError as error:
        raise ConfigError("E_CONFIG", f"{path}: {error.message}", path=path) from None
    if type(document) is not dict:
        raise ConfigError("E_CONFIG", f"{path}: must be a JSON object", path=path)
    for key, value in document.items():
        _check_member(path, key, value)
    old = [key for key in _BOOLEANS[2:] if key in document]
    passives_off = document.get("passiveBootstrap") is False and document.get("passiveTools") is False
    old_inactive: Mode = "off" if not old or passives_off else "passive"
    mode: Mode | None = document.get("mode")
    if mode is not None:
        inactive: Mode = "off" if mode == "off" else "passive"
    else:
        inactive = old_inactive
        mode = "active" if document.get("autoStart") else old_inactive if old else None
    return Settings(
        mode=mode,
        logging=document.get("logging", False),
        show_successful_patches=document.get("showSuccessfulPatches", True),
        history_limit=document.get("historyLimit", HISTORY_LIMIT_DEFAULT),
        inactive_mode=inactive,
    )


def _check_member(path: str, key: str, value: object) -> None:
    if key == "mode":
        is_fine, wanted = type(value) is str and value in MODES, f"one of {', '.join(MODES)}"
    elif key == "historyLimit":
        is_fine, wanted = is_count(value, most=HISTORY_LIMIT_MAX), f"an integer from 0 to {HISTORY_LIMIT_MAX}"
    elif key in _BOOLEANS:
        is_fine, wanted = type(value) is bool, "true or false"
    else:
        raise ConfigError("E_CONFIG", f"{path}: {shown(key)} is no setting; remove it", path=path, key=key)
    if not is_fine:
        raise ConfigError("E_CONFIG", f"{path}: {shown(key)} must be {wanted}, not {shown(value)}", path=path, key=key)
