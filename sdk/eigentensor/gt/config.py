"""What names of scopes mean, from YAML and from Python: both say the same, and the later one holds."""

from pathlib import Path

from eigentensor.gt.connection import set_signals, signals
from eigentensor.sharding.signals import ShardConfig, SignalConfig, Signals, load

__all__ = ["ShardConfig", "SignalConfig", "get_config", "get_signal_config", "load_config", "register_config"]


def load_config(path: str | Path) -> None:
    """Adds the signals of a YAML file to those that are known. Raises ConfigError, with file and line."""
    for name, config in load(path).by_name.items():
        register_config(name, config)


def register_config(name: str, config: SignalConfig) -> None:
    """Says what a name means from here on. Raises ConfigError for what is no name or no configuration."""
    set_signals(get_config().with_signal(name, config))


def get_config() -> Signals:
    """All that is known."""
    return signals() or Signals()


def get_signal_config(name: str) -> SignalConfig | None:
    """What a name means; None if nothing is said about it."""
    return get_config().by_name.get(name)
