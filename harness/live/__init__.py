"""Pages on this machine that show a run as it goes and speak to it; what they show is a study's."""
