"""The code with which the command ends after an error: the table of client/README.md says what each means."""

from eigentensor import errors
from eigentensor.errors import EigenTensorError

_KINDS: dict[int, tuple[type[EigenTensorError], ...]] = {
    1: (EigenTensorError,),
    2: (errors.BindingError, errors.TensorFileError, errors.GraphFileError),
    3: (errors.ConfigError,),
    4: (errors.BlobNotFound, errors.TaskNotFound, errors.AppNotFound),
    5: (errors.InsufficientFunds,),
    6: (errors.NobodyAccepted, errors.ExecutorFailed, errors.TaskCancelled),
    7: (errors.CaptureError, errors.ToleranceExceeded, errors.ExecutionError),
    8: (errors.BlobCorrupt, errors.WrongBits, errors.WitnessError, errors.WrongResult, errors.WrongReceipt),
    9: (errors.NotYet, errors.NotMined),
    10: (errors.ChainError, errors.StoreError, errors.ProcessDied, errors.ServiceBusy),
    11: (errors.ProgramError, errors.DisputeError, errors.BlobTooLarge, errors.Reverted, errors.TaskError),
    12: (errors.ExecutorConvicted, errors.SessionRewound),
    13: (errors.NotChecked,),
    14: (errors.ChallengeLost,),
}
_CODES = {kind: code for code, kinds in _KINDS.items() for kind in kinds}


def exit_code(kind: type[EigenTensorError]) -> int:
    """That of the nearest base that stands in the table."""
    return next(_CODES[base] for base in kind.__mro__ if base in _CODES)
