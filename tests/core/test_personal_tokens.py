"""Personal tokens in the core: names, numbers, expiry, and what survives a restart."""

import pytest

from ctld.core.records.effects import Done, Refusal
from ctld.core.records.events import Actor, CreatePersonalToken, PersonalTokenUsed, RevokePersonalToken, RevokeTokens
from ctld.core.requests.tokens import PERSONAL_TOKENS_MAX
from penstock.values.scopes import Scope
from tests.core.world import US, World, make_config

ANN = Actor(1001, 1001, "ann", "ann", ("ann",))
BOB = Actor(1002, 1002, "bob", "bob", ("bob",))


@pytest.fixture
def world() -> World:
    return World(make_config())


def create(world: World, who: Actor, name: str, life_s: int = 600) -> object:
    reply_to = world.reply_to()
    ends_at_us = world.now_us + life_s * US
    world.do(CreatePersonalToken(who, f"{who.user_name} {name} {ends_at_us}", name, Scope.SUBMIT, ends_at_us, reply_to))
    return world.replies[reply_to]


def names(world: World, who: Actor) -> list[str]:
    return [token.name for token in world.core.state.personal_tokens.of_user(who.user_name)]


def test_a_name_is_used_again_when_its_token_has_expired(world: World) -> None:
    assert isinstance(create(world, ANN, "ci", 60), Done)
    assert isinstance(create(world, BOB, "ci"), Done)
    again = create(world, ANN, "ci")
    assert isinstance(again, Refusal) and "'ci' already" in again.text
    world.advance(61)
    assert names(world, ANN) == ["ci"]
    assert isinstance(create(world, ANN, "other"), Done) and names(world, ANN) == ["other"]
    assert isinstance(create(world, ANN, "ci"), Done) and names(world, ANN) == ["other", "ci"]


def test_a_user_has_so_many_at_most(world: World) -> None:
    for i in range(PERSONAL_TOKENS_MAX):
        assert isinstance(create(world, ANN, f"t{i}", 60), Done)
    refusal = create(world, ANN, "one more")
    assert isinstance(refusal, Refusal) and str(PERSONAL_TOKENS_MAX) in refusal.text
    assert isinstance(create(world, BOB, "his"), Done)
    world.advance(61)
    assert isinstance(create(world, ANN, "one more"), Done) and names(world, ANN) == ["one more"]


def test_a_restart_keeps_what_is_there(world: World) -> None:
    for name in ("one", "two", "three"):
        create(world, ANN, name)
    token_id = world.core.state.personal_tokens.of_user("ann")[1].token_id
    world.do(PersonalTokenUsed(ANN, token_id, "10.0.0.9"))
    world.do(RevokePersonalToken(ANN, "ann", "one"))
    before = world.core.state.personal_tokens.of_user("ann")
    world.restart()
    assert world.core.state.personal_tokens.of_user("ann") == before
    assert [(token.name, token.used_from) for token in before] == [("two", "10.0.0.9"), ("three", "")]


def test_a_use_that_is_told_after_the_end_changes_nothing(world: World) -> None:
    create(world, ANN, "ci")
    token_id = world.core.state.personal_tokens.of_user("ann")[0].token_id
    world.do(RevokeTokens(ANN, "ann"))
    world.do(PersonalTokenUsed(ANN, token_id, "10.0.0.9"))
    assert names(world, ANN) == [] and not world.core.state.personal_tokens.by_id
