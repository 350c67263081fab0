"""What ends a job early, each with the exit code that tells it."""

OK = 0


class PipelineError(Exception):
    """Ends the job with one line for the user."""

    exit_code = 4


class Differences(PipelineError):
    """What was compared is not the same."""

    exit_code = 1


class Usage(PipelineError):
    """What was asked for cannot be done; nothing has been written."""

    exit_code = 2


class DataLoss(PipelineError):
    """Records are gone, or an endpoint broke a promise that the job relies on."""

    exit_code = 3


class Endpoint(PipelineError):
    """An endpoint cannot be reached, or refuses."""

    exit_code = 4
