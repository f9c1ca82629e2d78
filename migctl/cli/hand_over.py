"""`export`: what it asks of the engine, and where the text goes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from migctl import __version__
from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.cli.plans import STANDARD_INPUT, read_plan
from migctl.core.cluster.clusters import EngineName, MigStrategy, SlurmContainer
from migctl.core.keytable import Lost, Target, lost
from migctl.core.plan import Plan
from migctl.engine.planning import Elsewhere
from migctl.engine.session import Session
from migctl.errors import HostError, PlanError
from migctl.render.exported import Exporter, heading
from migctl.render.withheld import Withheld

_CLUSTERS = {"slurm": EngineName.SLURM, "kubernetes": EngineName.KUBERNETES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The command line's own settings, which win over the plan's."""

    boards: str | None = None
    cores: int | None = None
    partition: str | None = None
    gres_types: tuple[str, ...] = ()
    container: SlurmContainer | None = None
    namespace: str | None = None
    mig_strategy: MigStrategy | None = None
    queue: str | None = None
    dra: bool = False


def export_plan(common: Common, what: str, file: Path | None, output: Path | None, wishes: Wishes) -> None:
    """Write the plan for the other tool, and tell on stderr what that cannot express."""
    session = common.session()
    plan = with_wishes(
        read_plan(common, session.environ, file, engine=_CLUSTERS.get(what, EngineName.LOCAL).value), wishes
    )
    elsewhere = Elsewhere(boards=wishes.boards, cores=wishes.cores)
    losses = tuple(lost(plan, Target(what)))
    exporter = Exporter(f"{session.caller.uid}:{session.caller.gid}", session.caller.name, __version__)
    name = "plan" if file in (None, STANDARD_INPUT) else str(file)
    texts = _texts(session, plan, what, elsewhere, losses, exporter)
    _tell(common, plan, losses)
    if common.json:
        warnings = [one.sentence for one in losses]
        files = [{"name": name, "text": text} for name, text in texts.items()]
        write_json({"version": 1, "format": what, "files": files, "warnings": warnings})
    elif output is None:
        write(texts[""] if "" in texts else next(iter(texts.values())))
    else:
        _save(output, texts, what, name)


def with_wishes(plan: Plan, wishes: Wishes) -> Plan:
    """The plan with the command line's settings in place of its own.

    Raises:
        PlanError: a GRES type is not written as PROFILE=TYPE.
    """
    types = dict(plan.slurm.gres)
    for spelt in wishes.gres_types:
        profile, equals, kind = spelt.partition("=")
        if not (equals and profile and kind) or " " in kind:
            raise PlanError("usage", f"--gres-type is PROFILE=TYPE, not {spelt}", hint="--gres-type 1g.5gb=a100_1g.5gb")
        types[profile] = kind.removeprefix("gpu:")
    slurm = replace(
        plan.slurm,
        gres=tuple(types.items()),
        partition=wishes.partition or plan.slurm.partition,
        container=wishes.container or plan.slurm.container,
    )
    kubernetes = replace(
        plan.kubernetes,
        namespace=wishes.namespace or plan.kubernetes.namespace,
        mig_strategy=wishes.mig_strategy or plan.kubernetes.mig_strategy,
        queue=wishes.queue or plan.kubernetes.queue,
        dra=wishes.dra or plan.kubernetes.dra,
    )
    return replace(plan, slurm=slurm, kubernetes=kubernetes)


def _texts(
    session: Session, plan: Plan, what: str, elsewhere: Elsewhere, losses: Sequence[Lost], exporter: Exporter
) -> Mapping[str, str]:
    """File name → text; the one without a name holds all."""
    match what:
        case "slurm":
            return _slurm(session, plan, elsewhere, losses, exporter)
        case "kubernetes":
            return _kubernetes(session, plan, elsewhere, losses, exporter)
    from migctl.engine.exporting import local_rounds

    found = local_rounds(session, plan, elsewhere)
    match what:
        case "compose":
            from migctl.render.compose import compose_file

            return {"compose.yaml": compose_file(found, losses, exporter)}
        case "shell":
            from migctl.render.shell import shell_script

            return {f"{plan.name}.sh": shell_script(found, losses, exporter)}
        case _:
            from migctl.render.mig_parted import mig_parted_config

            return {"mig-parted.yaml": mig_parted_config(found, losses, exporter)}


def _slurm(
    session: Session, plan: Plan, elsewhere: Elsewhere, losses: Sequence[Lost], exporter: Exporter
) -> Mapping[str, str]:
    from migctl.core.cluster.clusterjobs import profiles
    from migctl.engine.exporting import cluster_turns, gres_devices, node_layout
    from migctl.render.gres_conf import counted, gres_conf
    from migctl.render.slurm import sbatch_scripts, submission
    from migctl.render.withheld import withheld

    node, found = cluster_turns(session, plan, elsewhere)
    above = heading(f"plan {plan.name} for Slurm", exporter.version, losses)
    types = {profile: plan.slurm.gres_type(profile) for profile in profiles(turn.group for turn in found)}
    counts = counted(node_layout(plan, node))
    site = gres_conf(types, counts, gres_devices(session, elsewhere)) if types else []
    hidden = withheld(plan.jobs)
    secrets = _secrets(
        hidden, "Secrets are not written here; sbatch hands them on from the environment of whoever submits:"
    )
    scripts = sbatch_scripts(plan, found, (*above[:1], *secrets), hidden=hidden)
    whole = submission(scripts, (*above, *secrets, *site), hidden)
    return {
        "": whole,
        "submit.sh": whole,
        **{f"{script.name}.sbatch": script.text for script in scripts},
    }


def _kubernetes(
    session: Session, plan: Plan, elsewhere: Elsewhere, losses: Sequence[Lost], exporter: Exporter
) -> Mapping[str, str]:
    from migctl.engine.exporting import cluster_turns, product
    from migctl.render.kubernetes import manifest_text, manifests
    from migctl.render.kubernetes_pod import secret_name
    from migctl.render.withheld import withheld

    node, found = cluster_turns(session, plan, elsewhere)
    hidden = withheld(plan.jobs)
    objects = manifests(plan, found, exporter, product=product(node), hidden=hidden)
    made = f"kubectl create secret generic {secret_name(plan)} --from-env-file=FILE"
    above = (
        *heading(f"plan {plan.name} for Kubernetes", exporter.version, losses),
        "kubectl apply -f THIS-FILE; kubectl get jobs,pods -l app.kubernetes.io/part-of=" + plan.name,
        "The kubelet pins whole CPUs only with cpuManagerPolicy: static; without it the limit still holds.",
        *_secrets(hidden, f"Secrets are not written here; make them first, with {made}, in whose lines stand:"),
    )
    return {f"{plan.name}.yaml": manifest_text(objects, above)}


def _secrets(hidden: Withheld, head: str) -> tuple[str, ...]:
    return (head, *(f"    {line}" for line in hidden.told)) if hidden.told else ()


def _tell(common: Common, plan: Plan, losses: Sequence[Lost]) -> None:
    from migctl.cli.terminal import style
    from migctl.errors import Notice
    from migctl.render.errors_text import notice_lines

    if common.quiet or common.json:
        return
    notices = [*plan.notices, *(Notice("not-expressed", one.sentence) for one in losses)]
    told = style(sys.stderr, no_color=common.no_color)
    sys.stderr.write("".join(f"{line}\n" for line in notice_lines(notices, told, most=len(notices))))


def _save(output: Path, texts: Mapping[str, str], what: str, name: str) -> None:
    """One file, or for several a folder.

    Raises:
        HostError: it cannot be written.
    """
    several = what == "slurm" and (output.is_dir() or not output.suffix)
    try:
        if several:
            output.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            if several and file:
                (output / file).write_text(text, "utf-8")
            elif not several and (file == "" or len(texts) == 1):
                output.write_text(text, "utf-8")
    except OSError as error:
        raise HostError("not-written", f"{output} cannot be written: {error.strerror}", where=name) from None
