"""Study of Authenticast (1998): how much authentication a stream's receiver can afford."""
