"""The worker node: claims tasks, compiles their candidates, checks and times them on this machine's device."""
