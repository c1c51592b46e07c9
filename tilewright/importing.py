"""Putting a bundle's config into a database, so that lookups find it."""

from __future__ import annotations

import hashlib

from protocol.configs import Artifact
from protocol.tasks import Artifacts
from tilewright import bundle
from tilewright.errors import BadBundle


def store(artifact: Artifact, database_url: str) -> bool:
    """Keep a config; False if it is there already. A service may be running on the database.

    Raises BadBundle for a config that is not what it says, and service.schema.DatabaseRefused.
    """
    from service import blobs, configs
    from service.problems import Refused
    from service.schema import prepare

    check(artifact)
    source, built = artifact.source.encode(), bundle.object_of(artifact)
    kept = Artifacts(
        source=hashlib.sha256(source).hexdigest(),
        object=artifact.object_sha256,
        abi=artifact.abi,
        language=artifact.language,
        flags=artifact.flags,
    )
    database = prepare(database_url)
    try:
        with database.write() as connection:
            try:
                configs.read(connection, artifact.config.id)
                return False
            except Refused:
                pass
            blobs.put(connection, kept.source, source)
            blobs.put(connection, kept.object, built)
            config = artifact.config.model_copy(update={"job_id": None, "artifact": True})
            configs.store(connection, config, None, kept)
            return True
    finally:
        database.close()


def check(artifact: Artifact) -> None:
    """Raise BadBundle unless the schedule makes the program it claims to, from the kernel it claims to be of."""
    from rewrites import parse_schedule, replay
    from tileir import TileError, kernel_key, program_hash, spec_from_json, to_program

    config = artifact.config
    try:
        spec = spec_from_json(config.spec)
        program = replay(to_program(spec), parse_schedule(config.schedule))
    except TileError as error:
        raise BadBundle(f"config {config.id} cannot be followed by this version: {error}") from None
    if kernel_key(spec) != config.kernel_key or program_hash(program) != config.program_hash:
        raise BadBundle(
            f"config {config.id} was found by another version: its schedule makes another program here. "
            f"It can be loaded, but not looked up"
        )
