def record_filter(request, uids):
    return None


def record_message(r, only_uid, cluster):
    return None
