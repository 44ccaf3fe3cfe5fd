"""Whether what was built still is as the cluster file says, and nodes can do their work in it."""

UP = "run `burst up`"
BY_HAND = "somebody has changed it by hand: `burst up --refresh` mends it"
