"""Study of the 2007 paper: the cost of twelve policies, at home and roaming."""
