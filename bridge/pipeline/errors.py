"""What ends a job early, each with the exit code that tells it."""

OK = 0


class PipelineError(Exception):
    """Ends the job with one line for the user."""

    exit_code = 4


class Differences(PipelineError):
    """The two sides of a comparison differ."""

    exit_code = 1


class Usage(PipelineError):
    """The job cannot be done as asked; nothing has been written."""

    exit_code = 2


class DataLoss(PipelineError):
    """Records are gone, or an endpoint broke a guarantee that the job relies on."""

    exit_code = 3


class Endpoint(PipelineError):
    """An endpoint cannot be reached, or refuses."""

    exit_code = 4
