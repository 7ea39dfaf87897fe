"""The list of public names and signatures is up to date, so that each change of the public API shows in a diff."""

from __future__ import annotations

from burnpy.docs import public_api


def test_the_list_of_public_names_is_up_to_date() -> None:
    assert public_api.PAGE.read_text(encoding="utf-8") == public_api.page(), (
        "burnpy/docs/public_api.txt is out of date: run python -m burnpy.docs.public_api"
    )
