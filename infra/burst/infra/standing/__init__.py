"""Whether what was built still is as the cluster file says, and nodes can do their work in it."""

UP = "run `burst up`"
BY_HAND = (
    "a `burst up` has not come to its end, or somebody has changed it by hand: "
    "`burst up --refresh` mends both"
)
