"""What settings of a sacctmgr line become before they are sent."""

import pytest

from cli.accounts.values import checked
from cli.base.run import CommandError
from penstock.values.limits import OF_ASSOC


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"qos": "gold,a-b"}, {"qos": "gold,a-b"}),
        ({"qos": "+gold,-normal,+a-b"}, {"qos+": "gold,a-b", "qos-": "normal"}),
        ({"qos+": "gold"}, {"qos+": "gold"}),
        ({"qos": ""}, {"qos": ""}),
        ({"qos": "-1"}, {"qos": "-1"}),
        (
            {"maxcpuminsperjob": "-1", "maxtresminsperjob": "billing=-1,gres/gpu=5"},
            {"maxtresminsperjob": "cpu=-1,billing=-1,gres/gpu=5"},
        ),
        ({"grptres": "cpu=5,mem=10", "grpcpus": "7"}, {"grptres": "cpu=7,mem=10"}),
        ({"grpnodes": "2", "grpmemory": "4"}, {"grptres": "node=2,mem=4"}),
    ],
)
def test_settings_of_one_limit_and_signs_of_names_are_put_together(given: dict[str, str], sent: dict[str, str]) -> None:
    assert checked(given, OF_ASSOC) == sent


def test_names_with_and_without_a_sign_are_not_mixed() -> None:
    with pytest.raises(CommandError, match="You can't use '=' and '\\+' or '-' in the same line"):
        checked({"qos": "gold,-normal"}, OF_ASSOC)
