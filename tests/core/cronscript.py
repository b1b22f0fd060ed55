"""Commands of scenarios about crontabs and triggers: a part of test_scripts.Script."""

from ctld.core.lifecycle.triggers import name_of
from ctld.core.records.events import ClearTriggers, CronEntry, SetTrigger, TriggerEnded, UpdateCrontab
from ctld.core.records.periodic import TriggerKind
from tests.core.hetscript import wanted
from tests.core.world import SPEC, START_US, US, USERS, World


class CronCommands:
    """Commands about crontabs."""

    world: World

    def crontab(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """crontab user= as= 1=0_5_*_*_* 1.FIELD=VALUE 2=@hourly / crontab user= remove."""
        user = keys.pop("user", "ann")
        for_uid = keys.pop("as", user)
        text, entries = None if plain == ["remove"] else "", []
        for number in sorted(name for name in keys if "." not in name):
            fields = {n.partition(".")[2]: value for n, value in keys.items() if n.startswith(f"{number}.")}
            spec, line = keys[number].replace("_", " "), 10 * int(number)
            entries.append(CronEntry(wanted(fields, f"cron{number}"), SPEC, spec, line - bool(fields), line))
            text = (text or "") + f"{spec} cron{number}\n"
        actors = (self.world.actor(for_uid), self.world.actor(user))
        return self.world.do(UpdateCrontab(*actors, text, tuple(entries), self.world.reply_to()))

    def crontabs(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What is committed of them."""
        return [
            f"{tab.user_name}: {' '.join(f'{j.job_id}@{j.first_line}-{j.last_line}' for j in tab.jobs) or 'empty'}"
            + "".join(f" disabled {first}-{last}" for first, last in tab.disabled)
            for _, tab in sorted(self.world.crontabs.items())
        ] or ["none"]

    def due(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """due 1: seconds until the job may start, from now and from 1970."""
        eligible_us = self.world.core.state.jobs[int(plain[0])].eligible_at_us
        return [f"{plain[0]} in {(eligible_us - self.world.now_us) / US:g} s"]

    def trigger(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """trigger down up nodes=n1,n2 job= offset= program= user= permanent=true."""
        kinds = 0
        for word in plain:
            kinds |= TriggerKind[word.upper()]
        nodes = tuple(name for name in keys.get("nodes", "").split(",") if name)
        event = SetTrigger(
            self.world.actor(keys.get("user", "root")), int(kinds), keys.get("program", "/bin/tell"), nodes=nodes,
            job_id=int(keys.get("job", 0)), offset_s=int(keys.get("offset", 0)),
            permanent=keys.get("permanent") == "true", reply_to=self.world.reply_to(),
        )  # fmt: skip
        return self.world.do(event)

    def untrigger(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """untrigger id= job= of= user=."""
        uid = USERS[keys["of"]] if "of" in keys else -1
        ids = (int(keys.get("id", 0)), int(keys.get("job", 0)), uid)
        return self.world.do(ClearTriggers(self.world.actor(keys.get("user", "root")), *ids, self.world.reply_to()))

    def triggered(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """triggered 1: its program has ended."""
        return self.world.do(TriggerEnded(int(plain[0])))

    def triggers(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What is committed of them; times in seconds since the scenario began."""
        return [
            f"{t.trigger_id} {name_of(t)} {t.user_name} {'job ' + str(t.job_id) if t.job_id else ','.join(t.nodes) or '*'}"
            + (f" due {(t.due_at_us - START_US) / US:g} for {','.join(t.hit)}" if t.due_at_us else "")
            + (f" running {t.running}" if t.running is not None else "")
            for _, t in sorted(self.world.triggers.items())
        ] or ["none"]
