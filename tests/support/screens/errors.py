"""How each public error is provoked: by a call here where that is cheap, else by a test that is named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from eigentensor import errors
from eigentensor.chain import Network
from eigentensor.cluster.address import check_folder
from eigentensor.cluster.layouts import HEAD, Reader
from eigentensor.cluster.remote import RemoteSession
from eigentensor.economics.words import read_rate
from eigentensor.errors import EigenTensorError
from eigentensor.program.codec import decode, encode
from eigentensor.receipt import Receipt
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.store.graphs import load_graph
from eigentensor.store.tensors import load_safetensors
from eigentensor.task import State, view
from eigentensor_client.inputs import existing
from eigentensor_client.orders import check_terms
from eigentensor_client.sources import of_python
from eigentensor_client.stages import check_open, failure
from eigentensor_local.processes import Processes
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.ledger import Budget, Job, Key, Ledger
from support.programs.worked_examples import layer
from support.stories.orders import LIFE, LOCAL, TERMS, seen

#: A file that calls what is paid for where it is read for its program, too.
_PAYS = b"""
import numpy, eigentensor
@eigentensor.function()
def program(x): return x
program.remote(numpy.ones(3, "float32"))
"""
#: Never raised by their own name: what is caught when all below them are meant.
BASES = {errors.EigenTensorError, errors.ProgramError, errors.ChannelError, errors.ClusterError}


def _file(name: str, content: bytes, read: Callable[[Path], object]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        read(path)


def _in_folder(use: Callable[[Path], object]) -> None:
    with TemporaryDirectory() as folder:
        use(Path(folder))


def _ends(state: State, stage: str = "final") -> None:
    error = failure(seen(state=state, executor="0xE", price=5), stage, str)
    assert error is not None
    raise error


def _asked(folder: Path, limit: int, *fingerprints: str) -> None:
    ledger = Ledger(folder / "ledger.sqlite")
    try:
        for number, fingerprint in enumerate(fingerprints):
            job = Job(f"{number:064}", Key("me", fingerprint, "key"), None, 0.0, escrow=1)
            ledger.add(job, view.task(LIFE, 101), (Budget(total=limit), None))
    finally:
        ledger.close()


def _two_books(folder: Path) -> None:
    ledger = Ledger(folder / "ledger.sqlite")
    try:
        Ledger(folder / "ledger.sqlite")
    finally:
        ledger.close()


def _open_to_all(folder: Path) -> None:
    folder.chmod(0o755)
    check_folder(folder)


def _dead(folder: Path) -> None:
    with Processes(folder) as processes:
        processes.start("false", ["false"], ready="never").wait_ready()


def _away() -> None:
    with GatewayClient("http://127.0.0.1:9", LocalStore(Path("unused")), attempts=1) as gateway:
        gateway.operators()


HERE: dict[type[EigenTensorError], Callable[[], object]] = {
    errors.FormatError: lambda: decode(b"no program"),
    errors.RuleError: lambda: decode(encode(replace(layer().program, max_repeat=0))),
    errors.BindingError: lambda: read_rate("often"),
    errors.CaptureError: lambda: _file("a.py", b"program = 3", lambda path: of_python(path, "program")),
    errors.PaymentRefused: lambda: _file("a.py", _PAYS, lambda path: of_python(path, "program")),
    errors.BlobNotFound: lambda: existing(Path("nowhere")),
    errors.TensorFileError: lambda: _file("a.safetensors", b"no tensors", load_safetensors),
    errors.GraphFileError: lambda: _file("a.graph", b"no graph", load_graph),
    errors.GatewayError: _away,
    errors.TaskError: lambda: check_open(seen(state=State.ACCEPTED)),
    errors.TermsRefused: lambda: check_terms(LOCAL, replace(TERMS, verifiers=5)),
    errors.NobodyAccepted: lambda: _ends(State.EXPIRED),
    errors.ExecutorFailed: lambda: _ends(State.FAILED),
    errors.ExecutorConvicted: lambda: _ends(State.CONVICTED),
    errors.TaskCancelled: lambda: _ends(State.CANCELLED),
    errors.NotChecked: lambda: _ends(State.FINAL, "checked"),
    errors.WrongReceipt: lambda: Receipt.from_bytes(b"{}"),
    errors.FrameRefused: lambda: list(Reader(frozenset()).feed(bytes(HEAD.size))),
    errors.NotAdmitted: lambda: _in_folder(_open_to_all),
    errors.ConnectionLost: lambda: _in_folder(lambda folder: RemoteSession(f"unix:{folder / 'door'}")),
    errors.ConfigError: lambda: Network.load("nowhere"),
    errors.BudgetSpent: lambda: _in_folder(lambda folder: _asked(folder, 0, "a")),
    errors.KeyReused: lambda: _in_folder(lambda folder: _asked(folder, 9, "a", "b")),
    errors.ServiceBusy: lambda: _in_folder(_two_books),
    errors.AppNotFound: lambda: _in_folder(lambda folder: Apps(folder).get("digits")),
    errors.ProcessDied: lambda: _in_folder(_dead),
}

#: By a test that needs a device, a sandbox or a chain: where it is, and what it says of the error if not its name.
ELSEWHERE: dict[str, tuple[str, str, str]] = {
    "CallConflict": (
        "integration/test_call_endpoint.py",
        "test_refusals_are_errors_of_the_service_before_they_are_problems",
        "CallConflict",
    ),
    "CallRefused": ("unit/test_paid_calls.py", "test_a_voucher_that_does_not_go_on_is_refused", "CallRefused"),
    "ChannelBusy": (
        "unit/test_paid_calls.py",
        "test_calls_that_are_not_acknowledged_are_as_many_as_the_offer_lets",
        "ChannelBusy",
    ),
    "ChannelClosed": (
        "integration/test_call_endpoint.py",
        "test_refusals_are_errors_of_the_service_before_they_are_problems",
        "ChannelClosed",
    ),
    "ChannelSpent": ("unit/test_paid_calls.py", "test_a_channel_spends_its_deposit_and_no_more", "ChannelSpent"),
    "NoResponse": (
        "unit/test_channel_caller.py",
        "test_without_a_response_a_call_stays_under_way_and_another_process_takes_it_up",
        "NoResponse",
    ),
    "ToleranceExceeded": (
        "unit/test_planning.py",
        "test_no_path_is_exact_and_the_error_says_how_far_the_best_is",
        "ToleranceExceeded",
    ),
    "ExecutionError": (
        "differential/test_kept.py",
        "test_states_of_a_run_that_ended_early_are_lost_and_can_be_given_again",
        "ExecutionError",
    ),
    "SandboxError": (
        "hostile/test_sandbox.py",
        "test_what_a_child_hands_back_in_another_size_is_refused",
        "SandboxError",
    ),
    "NoSandbox": ("hostile/test_sandbox.py", "test_what_cannot_be_confined_is_refused", "NoSandbox"),
    "LimitError": (
        "differential/test_kept.py",
        "test_what_needs_too_much_memory_is_refused_before_anything_is_read_compiled_or_allocated",
        "LimitError",
    ),
    "ProcessKilled": (
        "hostile/test_tenant.py",
        "test_a_process_that_is_killed_or_hangs_ends_the_run_and_the_next_has_another",
        "ProcessKilled",
    ),
    "WrongBits": ("property/test_sample.py", "test_a_flipped_bit_in_a_sampled_element_is_found", "WrongBits"),
    "WitnessError": ("property/test_tracing.py", "test_a_claimed_value_has_one_pattern", "WitnessError"),
    "DisputeError": ("integration/test_player.py", "test_strangers_play_in_no_game", "DisputeError"),
    "MailClosed": (
        "differential/test_sharded.py",
        "test_a_worker_that_fails_ends_the_run_of_all_with_its_error_and_the_next_run_is_right",
        "MailClosed",
    ),
    "WorkerLost": (
        "integration/test_cluster_failure.py",
        "test_a_run_with_which_three_workers_go_away_is_given_up_and_says_so",
        "WorkerLost",
    ),
    "NotDisputable": (
        "e2e/test_money.py",
        "test_what_nobody_could_be_convicted_for_is_refused_before_anything_is_sent",
        "NotDisputable",
    ),
    "IllegalMove": (
        "property/test_dispute.py",
        "test_the_moves_of_a_game_are_refused_in_every_other_phase_and_after_the_clock",
        "IllegalMove",
    ),
    "StoreError": ("unit/test_operator_data.py", "test_a_blob_that_nobody_has_is_an_error_of_the_store", "StoreError"),
    "BlobCorrupt": (
        "unit/test_store.py",
        "test_pieces_fold_to_the_blob_root_and_each_is_verified_alone",
        "BlobCorrupt",
    ),
    "BlobTooLarge": ("integration/test_blobs.py", "test_too_much_is_refused", "BlobTooLarge"),
    "StoreFull": ("unit/test_store.py", "test_a_full_disk_is_said_in_words", "StoreFull"),
    "ChainError": ("integration/test_chain.py", "test_a_node_that_is_away_or_of_another_chain_is_said", "ChainError"),
    "Unreachable": ("integration/test_chain.py", "test_a_node_that_is_away_or_of_another_chain_is_said", "Unreachable"),
    "Reverted": (
        "integration/test_chain.py",
        "test_anybody_posts_a_signed_order_and_the_operators_that_it_names_may_accept",
        "Reverted",
    ),
    "FeeTooHigh": (
        "integration/test_chain_fees.py",
        "test_no_message_pays_more_than_is_allowed_and_it_goes_on_when_fees_come_down",
        "FeeTooHigh",
    ),
    "NotMined": (
        "integration/test_chain_fees.py",
        "test_no_message_pays_more_than_is_allowed_and_it_goes_on_when_fees_come_down",
        "NotMined",
    ),
    "NotSigned": ("integration/test_signers.py", "test_what_is_no_signature_of_the_account_is_refused", "NotSigned"),
    "SignerAway": (
        "integration/test_signers.py",
        "test_a_signer_that_is_away_is_asked_again_for_some_seconds",
        "SignerAway",
    ),
    "TaskNotFound": ("e2e/test_money.py", "test_tasks_are_found_by_the_beginning_of_their_name", "TaskNotFound"),
    "NotYet": ("e2e/test_money.py", "test_a_wait_that_is_over_says_that_the_task_goes_on", "NotYet"),
    "WrongResult": (
        "integration/test_client_transfer.py",
        "test_what_does_not_fit_the_program_is_a_wrong_result",
        "WrongResult",
    ),
    "InsufficientFunds": (
        "e2e/test_money.py",
        "test_too_little_money_is_refused_before_anything_is_sent",
        "InsufficientFunds",
    ),
    "SessionRewound": ("integration/test_sessions.py", "goes_on_after_a_lie", "SessionRewound"),
    "SessionBusy": (
        "unit/test_client_history.py",
        "test_only_one_process_has_a_session_and_none_takes_the_place_of_another",
        "SessionBusy",
    ),
    "NotChallengeable": (
        "integration/test_challenge.py",
        "test_a_lie_is_shown_and_priced_and_what_cannot_be_challenged_is_said_before_anything_is_spent",
        "closed with block",
    ),
    "ChallengeLost": (
        "integration/test_challenge.py",
        "test_a_right_result_is_left_alone_and_a_challenge_of_it_is_lost",
        "code == 14",
    ),
    "ChannelNotFound": (
        "integration/test_aggregator_calls.py",
        "test_what_is_not_there_is_not_told",
        '"ChannelNotFound"',
    ),
    "ChallengeNotFound": (
        "integration/test_challenge.py",
        "test_a_lie_is_shown_and_priced_and_what_cannot_be_challenged_is_said_before_anything_is_spent",
        "there is no game 99",
    ),
    "Away": ("integration/test_blobs.py", "test_a_database_or_blobs_that_do_not_answer_are_away", "Away"),
    "StandsBy": (
        "integration/test_aggregator.py",
        "test_of_two_on_one_database_one_leads_and_the_other_serves_until_it_takes_over",
        "StandsBy",
    ),
    "NotAllowed": (
        "integration/test_aggregator.py",
        "test_operators_say_why_they_do_not_accept_and_only_they",
        "NotAllowed",
    ),
    "Unsupported": ("unit/test_openai.py", "test_what_is_not_honoured_is_refused_by_its_name", "Unsupported"),
}
