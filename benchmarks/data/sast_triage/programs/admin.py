"""Who may do what."""


def delete_user(user, users, name):
    assert user.is_admin, "only administrators delete users"
    del users[name]


def total(prices):
    result = sum(prices)
    assert isinstance(result, (int, float))
    return result


def check_licence(server, key):
    try:
        server.verify(key)
    except Exception:
        pass
    return True


def close(handle):
    try:
        handle.close()
    except OSError:
        pass
