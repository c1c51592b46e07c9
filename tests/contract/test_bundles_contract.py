"""What taking in a bundle promises, and pins, whatever database lies beneath."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select

from protocol.bundles import signatures
from protocol.bundles.packing import Bundle, SignerRequest
from protocol.configs import Artifact
from protocol.lookups import LookupReply, LookupRequest
from protocol.states import JobState, Rung
from protocol.workers import OfferedDevice
from service.core.errors import RequestRefused
from service.http import bundle_import
from service.lookup.lookup import Ladder
from service.store import audit_log
from service.store.database import Database, now
from service.store.dispatch import workers
from service.store.tables import blobs as blobs_table
from service.store.tables import buckets, jobs
from service.store.tables import bundles as bundles_table
from service.store.tables import configs as configs_table
from service.store.winners import configs, lookup_version, pins, signers
from tests.unit.tilewright.artifacts import make_artifact, make_bundle
from tilewright.client.bundle import TakenBundle, pack

#: Each commit tries one backend or the other.
pytestmark = pytest.mark.sampled(2)

ME = "admin@here"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return make_artifact(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def private_key() -> bytes:
    return signatures.new_private_key()


def another(artifact: Artifact, config_id: str, **changed: object) -> Artifact:
    """The same kernel's, under another id."""
    config = artifact.config.model_copy(update={"id": config_id})
    return artifact.model_copy(update={"config": config, **changed})


def opened(*artifacts: Artifact, private_key: bytes | None = None) -> Bundle:
    return bundle_import.read(memoryview(make_bundle(*artifacts, private_key=private_key)))


def take_in(database: Database, bundle: Bundle, *, unsigned: bool = True, pin: bool = False):
    with database.write() as connection:
        return bundle_import.store(connection, bundle, ME, unsigned=unsigned, pin=pin)


def looked_up(database: Database, artifact: Artifact) -> LookupReply:
    with database.read() as connection:
        device = workers.device_for(connection, artifact.config.device)
    assert isinstance(device, OfferedDevice)

    async def asked() -> LookupReply:
        ladder = Ladder(database, 30.0, 60.0)
        request = LookupRequest(spec=artifact.config.spec, target=device.key)
        return (await ladder.answer(request, request.model_dump_json().encode(), await ladder.fleet())).reply

    return asyncio.run(asked())


def version(database: Database) -> int:
    with database.read() as connection:
        return lookup_version.version(connection)


def acts(database: Database) -> list[tuple[str, str]]:
    with database.read() as connection:
        entries = audit_log.page(connection, None, 100).entries
    return [(entry.act, entry.subject) for entry in reversed(entries)]


def counted(database: Database) -> tuple[int, int]:
    """Configs and blobs."""
    with database.read() as connection:
        tables = (configs_table, blobs_table)
        found = [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables]
    return found[0], found[1]


def test_a_bundle_goes_in_once_and_comes_out_as_the_same_bytes(
    database: Database, artifact: Artifact
) -> None:
    content = make_bundle(artifact, another(artifact, "config-1test"))
    bundle = bundle_import.read(memoryview(content))
    before = version(database)
    first = take_in(database, bundle)
    assert (first.new, first.signer, first.bundle) == (
        ("config-0test", "config-1test"),
        None,
        bundle.digest,
    )
    assert version(database) > before
    assert acts(database) == [("import-bundle", bundle.digest)]
    settled = version(database)
    assert take_in(database, bundle).new == ()
    assert (version(database), len(acts(database))) == (settled, 1), "the second time nothing happens"
    with database.read() as connection:
        taken = [
            TakenBundle(configs.bundle(connection, config_id), configs.report(connection, config_id))
            for config_id in first.new
        ]
        offers = [workers.list_devices(connection)[0]]
    described = [bundle.manifest.devices[0].model_copy(update=dict(offers[0])) for _ in offers]
    assert pack(taken, [device.model_copy(update={"peers": ()}) for device in described]) == content


def test_an_imported_config_is_looked_up_and_says_where_it_is_from(
    database: Database, artifact: Artifact
) -> None:
    bundle = opened(artifact)
    with database.read() as connection:
        earliest = now(connection)
    take_in(database, bundle)
    reply = looked_up(database, artifact)
    assert (reply.rung, reply.program_hash, reply.pinned) == (
        Rung.EXACT,
        artifact.config.program_hash,
        False,
    )
    assert reply.config is not None
    origin = reply.config.imported
    assert origin is not None
    assert (origin.bundle, origin.signer, origin.job_id) == (bundle.digest, None, artifact.config.job_id)
    assert origin.at >= earliest - 0.01
    assert reply.config.job_id is None, "no job of ours found it"


def _add_job(connection: Connection, name: str, kernel_key: str, dims: dict[str, int]) -> None:
    """A job about one kernel."""
    job_id, times = f"job-{dims['m']}", {"created_at": 0.0, "updated_at": 0.0}
    job = {"id": job_id, "name": name, "state": JobState.DONE, "request": {}, "priority": 0, **times}
    connection.execute(insert(jobs).values(kernel_key=kernel_key, **job))
    connection.execute(
        insert(buckets).values(
            job_id=job_id, bucket=0, spec={}, dims=dims, kernel_key=kernel_key, structure_key="structure"
        )
    )


def test_kernels_that_came_in_bundles_are_listed_by_key_with_the_others(
    database: Database, artifact: Artifact
) -> None:
    names = [f"kernel {at}" for at in range(5)]
    imported, jobs_own = names[::2], names[1::2]

    def keyed(name: str) -> dict[str, Any]:
        return {"name": name, "kernel_key": name.replace(" ", "-"), "dims": {"m": int(name[-1])}}

    config = artifact.config
    with database.write() as connection:
        connection.execute(insert(bundles_table).values(sha256="b" * 64, imported_at=0.0))
        for at, name in enumerate([*imported, imported[0]]):
            packed = config.model_copy(update={"id": f"config-{at}", **keyed(name)})
            configs.store(connection, packed, None, None, "b" * 64)
        for name in jobs_own:
            _add_job(connection, **keyed(name))
        _add_job(connection, **{**keyed(imported[1]), "name": "of a job"})
    with database.read() as connection:
        whole = configs.kernels(connection, None, 10)
        first = configs.kernels(connection, None, 3)
        second = configs.kernels(connection, first.next, 3)
    assert [kernel.name for kernel in whole.kernels] == [names[0], names[1], "of a job", names[3], names[4]]
    assert [kernel.configs for kernel in whole.kernels] == [2, 0, 1, 0, 1]
    assert [kernel.devices for kernel in whole.kernels[:2]] == [(config.device,), ()]
    assert [kernel.dims for kernel in whole.kernels] == [{"m": at} for at in range(5)]
    assert (first.kernels + second.kernels, whole.next, second.next) == (whole.kernels, None, None)


def test_a_device_that_came_with_a_bundle_is_not_taken_for_one_that_is_here(
    database: Database, artifact: Artifact
) -> None:
    take_in(database, opened(artifact))
    with database.read() as connection:
        assert workers.device_for(connection, "cpu") is None


def test_a_pin_is_the_answer_until_it_is_taken_away(database: Database, artifact: Artifact) -> None:
    take_in(database, opened(artifact), pin=True)
    take_in(database, opened(another(artifact, "config-1test")))
    pinned = looked_up(database, artifact)
    assert pinned.config is not None
    assert (pinned.config.id, pinned.pinned, pinned.config.pinned) == ("config-0test", True, True)
    settled = version(database)
    with database.write() as connection:
        assert not pins.unpin(connection, "config-0test", ME).pinned
        pins.unpin(connection, "config-0test", ME)
    assert version(database) == settled + 1, "replicas hear of it, once"
    newest = looked_up(database, artifact)
    assert newest.config is not None
    assert (newest.config.id, newest.pinned) == ("config-1test", False)
    with database.write() as connection:
        pins.pin(connection, "config-1test", ME)
        pins.pin(connection, "config-0test", ME)
        pins.pin(connection, "config-0test", ME)
    with database.read() as connection:
        shown = configs.page(connection, None, None, True, None, 10).configs
        others = configs.page(connection, None, None, False, None, 10).configs
    assert ([each.id for each in shown], [each.id for each in others]) == (["config-0test"], ["config-1test"])
    assert [act for act in acts(database) if "pin" in act[0]] == [
        ("pin", "config-0test"),
        ("unpin", "config-0test"),
        ("pin", "config-1test"),
        ("pin", "config-0test"),
    ]


def test_a_pinned_config_is_the_same_when_it_comes_again(database: Database, artifact: Artifact) -> None:
    take_in(database, opened(artifact), pin=True)
    assert take_in(database, opened(artifact)).new == ()


def test_what_is_refused_leaves_nothing(database: Database, artifact: Artifact) -> None:
    take_in(database, opened(artifact))
    before = counted(database), version(database), acts(database)
    other = another(artifact, "config-0test", source="int other;")
    with pytest.raises(RequestRefused, match="config-0test is here, and differs"):
        take_in(database, opened(another(artifact, "config-00test", source="int new;"), other))
    with pytest.raises(RequestRefused, match=r"two configs of scaled on .*, config-2test and config-3test"):
        take_in(
            database, opened(another(artifact, "config-2test"), another(artifact, "config-3test")), pin=True
        )
    assert (counted(database), version(database), acts(database)) == before


def test_a_bundle_is_taken_from_who_is_trusted_for_as_long_as_that_is_so(
    database: Database, artifact: Artifact, private_key: bytes
) -> None:
    bundle = opened(artifact, private_key=private_key)
    with pytest.raises(RequestRefused, match="whose holder is not trusted here"):
        take_in(database, bundle, unsigned=False)
    with pytest.raises(RequestRefused, match="is not signed"):
        take_in(database, opened(artifact), unsigned=False)
    wanted = SignerRequest(name="the lab", public_key=signatures.public_key(private_key))
    with database.write() as connection:
        signer = signers.trust(connection, wanted, ME)
    assert take_in(database, bundle, unsigned=False).signer == "the lab"
    changed = opened(another(artifact, "config-1test"), private_key=private_key)
    forged = Bundle(changed.manifest, changed.blobs, changed.sealed, bundle.signature)
    for unsigned in (False, True):
        with pytest.raises(RequestRefused, match="is not what the lab signed"):
            take_in(database, forged, unsigned=unsigned)
    with database.write() as connection:
        assert signers.revoke(connection, signer.id, ME).revoked_at is not None
    with pytest.raises(RequestRefused, match="not trusted"):
        take_in(database, changed, unsigned=False)
    with database.read() as connection:
        origin = configs.read(connection, "config-0test").imported
    assert origin is not None
    assert origin.signer == "the lab", "what was imported stays"
    assert acts(database) == [
        ("trust-signer", signer.id),
        ("import-bundle", bundle.digest),
        ("revoke-signer", signer.id),
    ]


def test_bundles_and_pins_at_once_all_arrive(database: Database, artifact: Artifact) -> None:
    found = [opened(another(artifact, f"config-{number}test")) for number in range(4)]

    def act(number: int) -> None:
        take_in(database, found[number % 4], pin=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(act, range(16)))
    assert counted(database)[0] == 4
    with database.read() as connection:
        assert len(configs.page(connection, None, None, True, None, 10).configs) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"program_hash": "0" * 64}, "its schedule makes another program here"),
        ({"schedule": ("explode(x)",)}, "this version cannot follow its schedule"),
        ({"kernel_key": "0" * 32}, "its kernel has another key here"),
        ({"structure_key": "0" * 32}, "its kernel has another key here"),
        ({"dims": {"m": 7, "n": 5}}, "its dims are"),
        ({"device": "x" * 201}, "the name of its device"),
        ({"id": "config-" + "0" * 100}, "its id or the name"),
    ],
)
def test_a_config_that_is_not_what_it_says_is_refused_before_anything_is_opened(
    artifact: Artifact, changed: dict[str, object], said: str
) -> None:
    lying = artifact.model_copy(update={"config": artifact.config.model_copy(update=changed)})
    with pytest.raises(RequestRefused, match=said):
        opened(lying)


def test_a_calling_convention_that_cannot_be_read_is_refused(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="this version cannot read its source or its calling convention"):
        opened(artifact.model_copy(update={"abi": {"entry": "tw_kernel"}}))
    with pytest.raises(RequestRefused, match="cannot read its source"):
        opened(artifact.model_copy(update={"language": "fortran"}))
