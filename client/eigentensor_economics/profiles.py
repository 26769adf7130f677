"""Parameters of the markets that the project deploys, for whoever reckons without a network."""

from dataclasses import replace

from eigentensor.economics.terms import WAD, Parameters

#: On the stand-in of EigenLayer's core.
LOCAL = Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=20, challenge=20, clock=60, margin=50,
    eta=WAD // 4, g_def=3 * WAD // 1000, g_miss=WAD // 1000, check_floor=WAD // 20, phi=WAD, sybils=WAD // 3,
    stake_margin=WAD * 5 // 4, min_stake=WAD // 100, g_chk=WAD // 1000, g_chunk=WAD // 10_000, other_seats=2,
    confirmations=2,
)  # fmt: skip


def mainnet(gas_price: int) -> Parameters:
    """With what gas costs, in wei, when the market is deployed."""
    return replace(
        LOCAL, max_exec=7_200, lag=128, grid=16, record=1_800, check=300, reveal=1_800, challenge=7_200, clock=7_200,
        margin=21_600, g_def=600_000 * gas_price, g_chk=350_000 * gas_price, g_miss=200_000 * gas_price,
        g_chunk=60_000 * gas_price, check_floor=WAD // 10, min_stake=WAD // 10, other_seats=20, confirmations=64,
    )  # fmt: skip
