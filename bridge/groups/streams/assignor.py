"""Who should have which tasks: Kafka's assignor `sticky` (StickyTaskAssignor), with its aims kept strictly.

1. Each task is active at one member; members' numbers of active tasks differ by one at most.
2. As few active tasks move as that allows. One that moves goes to a process that has a copy of its state, if a member
   there may have more; else to where there are fewest tasks.
3. A task with state has standbys on as many other processes as replicas are asked for, if there are so many.
4. A standby stays unless its process has the task otherwise, or the member has two tasks more than one that could take
   it. Who had the active task comes before those who had standbys.
5. The same members and tasks give the same again: nothing moves at rest.

Among members with equally many tasks the process with the fewest for each of its members comes first. Kafka's own goes
by the load of whole processes, by which members may come to differ by more than one.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bridge.groups.streams.model import NO_TASKS, Task, Tasks


@dataclass(frozen=True, slots=True)
class AssignorMember:
    """A member as the assignor sees it."""

    process_id: str
    had: Tasks = NO_TASKS
    """Its target until now."""


def assign(
    members: Mapping[str, AssignorMember],
    tasks: Collection[Task],
    stateful: Collection[str],
    standby_replicas: int,
) -> dict[str, Tasks]:
    """What each member should have, by member id. `stateful`: the subtopologies whose tasks get standbys."""
    if not members:
        return {}
    return _Sticky(members).assign(tasks, frozenset(stateful), standby_replicas)


class _Process:
    """A process, with what its members have been given so far."""

    def __init__(self, process_id: str) -> None:
        self.id = process_id
        self.members: list[str] = []
        self.by_load: list[tuple[int, int, str]] = []
        """A heap of its members by load and place, with some that are past."""
        self.tasks: set[Task] = set()
        self.key = (0, 0.0, process_id)
        """Processes with the least come first: the tasks of the emptiest member, then those for each member."""


class _Sticky:
    def __init__(self, members: Mapping[str, AssignorMember]) -> None:
        self._members = members
        self._load = dict.fromkeys(sorted(members), 0)
        self._active: dict[str, set[Task]] = {member_id: set() for member_id in self._load}
        self._standby: dict[str, set[Task]] = {member_id: set() for member_id in self._load}
        self._processes: dict[str, _Process] = {}
        for member_id in self._load:
            process_id = members[member_id].process_id
            process = self._processes.setdefault(process_id, _Process(process_id))
            process.by_load.append((0, len(process.members), member_id))
            process.members.append(member_id)
        self._place = {one: place for process in self._processes.values() for _, place, one in process.by_load}
        self._by_key = sorted(process.key for process in self._processes.values())  # a heap, with some that are past
        self._had_active = {task: one for one in self._load for task in members[one].had.active}
        self._had_copy: dict[Task, list[str]] = {}
        for member_id in self._load:
            for task in members[member_id].had.standby | members[member_id].had.warmup:
                self._had_copy.setdefault(task, []).append(member_id)

    def assign(self, tasks: Collection[Task], stateful: frozenset[str], standby_replicas: int) -> dict[str, Tasks]:
        # by partition first: what a full member leaves is of all its subtopologies, and fewer standbys move again
        in_order = sorted(tasks, key=lambda task: (task.partition, task.subtopology))
        self._give_active(in_order)
        replicas = min(standby_replicas, len(self._processes) - 1)
        if replicas > 0:
            self._give_standby([task for task in in_order if task.subtopology in stateful], replicas)
            while self._balance():  # each move makes loads more alike, so there is an end
                pass
        return {one: Tasks(frozenset(self._active[one]), frozenset(self._standby[one])) for one in self._load}

    # ---- active tasks ------------------------------------------------------------------------------------------------

    def _give_active(self, tasks: list[Task]) -> None:
        self._fewest, self._extra = divmod(len(tasks), len(self._load))
        homeless = [task for task in tasks if not self._give_where_there_is_room(task, self._former(task))]
        homeless = [task for task in homeless if not self._give_where_there_is_room(task, self._holders(task))]
        homeless = [task for task in homeless if not self._give_where_there_is_room(task, self._neighbours(task))]
        for task in sorted(homeless):
            process = self._lightest()
            self._give(task, self._emptiest(process), self._active)

    def _former(self, task: Task) -> Iterable[str]:
        return [self._had_active[task]] if task in self._had_active else []

    def _holders(self, task: Task) -> Iterable[str]:
        return self._had_copy.get(task, ())

    def _neighbours(self, task: Task) -> Iterable[str]:
        """The emptiest members of the processes that have had the task: there may be very many others."""
        processes = {self._members[one].process_id for one in (*self._former(task), *self._holders(task))}
        return [self._emptiest(self._processes[process_id]) for process_id in sorted(processes)]

    def _give_where_there_is_room(self, task: Task, candidates: Iterable[str]) -> bool:
        # so many members may have one more than the fewest
        most = self._fewest + (self._extra > 0)
        fit = [one for one in candidates if self._load[one] < most]
        if not fit:
            return False
        chosen = min(fit, key=lambda one: (self._load[one], self._process(one).key))
        self._extra -= self._load[chosen] == self._fewest
        self._give(task, chosen, self._active)
        return True

    # ---- standby tasks -----------------------------------------------------------------------------------------------

    def _give_standby(self, tasks: list[Task], replicas: int) -> None:
        missing: list[Task] = []
        for task in tasks:
            left = replicas
            for member_id in (*self._former(task), *sorted(self._holders(task), key=self._load.__getitem__)):
                if left and task not in self._process(member_id).tasks:
                    self._give(task, member_id, self._standby)
                    left -= 1
            missing += [task] * left
        for task in missing:
            process = self._lightest(without=task)
            self._give(task, self._emptiest(process), self._standby)

    def _balance(self) -> bool:
        """Move standbys from members with many tasks to members with two fewer; whether there was anything to do."""
        moved = False
        for member_id in sorted(self._load, key=self._load.__getitem__, reverse=True):
            had = self._members[member_id].had.standby
            for task in sorted(self._standby[member_id], key=lambda task: (task in had, task)):
                if self._lightest().key[0] + 1 >= self._load[member_id]:
                    break
                moved |= self._move(task, member_id)
        return moved

    def _move(self, task: Task, member_id: str) -> bool:
        own = self._process(member_id)
        own.tasks.remove(task)
        process = self._lightest(without=task)
        own.tasks.add(task)
        if process.key[0] + 1 >= self._load[member_id]:
            return False
        self._standby[member_id].remove(task)
        own.tasks.remove(task)
        self._change_load(member_id, -1)
        self._weigh(own)
        self._give(task, self._emptiest(process), self._standby)
        return True

    # ---- members and processes ---------------------------------------------------------------------------------------

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _emptiest(self, process: _Process) -> str:
        while process.by_load[0][0] != self._load[process.by_load[0][2]]:
            heapq.heappop(process.by_load)
        return process.by_load[0][2]

    def _change_load(self, member_id: str, by: int) -> None:
        self._load[member_id] += by
        heapq.heappush(self._process(member_id).by_load, (self._load[member_id], self._place[member_id], member_id))

    def _give(self, task: Task, member_id: str, to: dict[str, set[Task]]) -> None:
        to[member_id].add(task)
        self._change_load(member_id, 1)
        process = self._process(member_id)
        process.tasks.add(task)
        self._weigh(process)

    def _weigh(self, process: _Process) -> None:
        fewest = self._load[self._emptiest(process)]
        process.key = (fewest, len(process.tasks) / len(process.members), process.id)
        heapq.heappush(self._by_key, process.key)

    def _lightest(self, without: Task | None = None) -> _Process:
        """The process with the least, of those that do not have this task; there must be one."""
        aside = []
        while True:
            process = self._processes[self._by_key[0][2]]
            if process.key != self._by_key[0]:
                heapq.heappop(self._by_key)  # of the past
            elif without in process.tasks:
                aside.append(heapq.heappop(self._by_key))
            else:
                break
        for key in aside:
            heapq.heappush(self._by_key, key)
        return process
