"""What a node knows of transactions, as the test says."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Identity, OpenTransaction, Outcome, Transaction


def transaction(number: int) -> Transaction:
    """Each of its own producer."""
    return Transaction(number % 8, Identity(number, 0, 1))


class FakeOutcomes:
    """Transactions are open until the test decides them, or lets it be known by the next question."""

    def __init__(self) -> None:
        self.decided: dict[Transaction, Outcome] = {}
        self.recorded: dict[Transaction, Outcome] = {}
        """What this node learns when it asks."""
        self.away = False
        """Questions are not answered."""
        self.confirms = 0
        self.watchers: defaultdict[Transaction, list[Callable[[], None]]] = defaultdict(list)

    def outcome(self, transaction: Transaction) -> Outcome:
        return self.decided.get(transaction, Outcome.OPEN)

    def watch(self, transaction: Transaction, decided: Callable[[], None]) -> None:
        self.watchers[transaction].append(decided)

    def open_in(self, topic_id: str, partition: int) -> Sequence[OpenTransaction]:
        return ()

    async def confirm(self) -> None:
        self.confirms += 1
        if self.away:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        for transaction, outcome in self.recorded.items():
            self.decide(transaction, outcome)

    # ---- what tests do -----------------------------------------------------------------------------------------------

    def decide(self, transaction: Transaction, outcome: Outcome) -> None:
        self.decided[transaction] = outcome
        for decided in self.watchers.pop(transaction, ()):
            decided()
