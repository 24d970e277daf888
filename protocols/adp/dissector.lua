-- Shows ADP messages of both versions in Wireshark: what is in clear, and how the rest is protected.
-- Load it with `tshark -X lua_script:dissector.lua`, or from Wireshark's folder of plugins. It takes
-- IP protocol 253; for UDP: Decode As, or `-d udp.port==PORT,authdp`. Wireshark has another `adp`.

local adp = Proto("authdp", "Authenticated Datagram Protocol")

local types = {[1] = "data", [2] = "reset"}
local f = adp.fields
f.version = ProtoField.uint8("authdp.version", "Version (1: of 1987)", base.DEC, nil, 0xf0)
f.type = ProtoField.uint8("authdp.type", "Type", base.DEC, types, 0x0f)
f.flags = ProtoField.uint8("authdp.flags", "Flags", base.HEX)
f.requests = ProtoField.bool("authdp.flags.request", "Request rides", 8, nil, 0x01)
f.acknowledges = ProtoField.bool("authdp.flags.acknowledgement", "Acknowledgement rides", 8, nil, 0x02)
f.rekeys = ProtoField.bool("authdp.flags.rekey", "About the next key", 8, nil, 0x04)
f.is_sealed = ProtoField.bool("authdp.flags.sealed", "Sealed body", 8, nil, 0x08)
f.has_trailer = ProtoField.bool("authdp.flags.trailer", "Trailer protected", 8, nil, 0x10)
f.all = ProtoField.bool("authdp.flags.all", "Body encrypted", 8, nil, 0x20)
f.has_checksum = ProtoField.bool("authdp.flags.checksum", "Checksum", 8, nil, 0x40)
f.count = ProtoField.uint16("authdp.count", "User messages")
f.channel = ProtoField.bytes("authdp.channel", "Channel")
f.session = ProtoField.bytes("authdp.session", "Kernel session")
f.request = ProtoField.bytes("authdp.request", "Request")
f.challenge_t = ProtoField.bytes("authdp.request.t", "T")
f.sealed_s = ProtoField.bytes("authdp.request.s", "S, encrypted")
f.request_key = ProtoField.bytes("authdp.request.key", "Ephemeral key")
f.request_signature = ProtoField.bytes("authdp.request.signature", "Signature")
f.acknowledgement = ProtoField.bytes("authdp.acknowledgement", "Acknowledgement (1987: R)")
f.acknowledgement_key = ProtoField.bytes("authdp.acknowledgement.key", "Ephemeral key")
f.acknowledgement_signature = ProtoField.bytes("authdp.acknowledgement.signature", "Signature")
f.next_channel = ProtoField.bytes("authdp.next.channel", "Next channel")
f.next_key = ProtoField.bytes("authdp.next.key", "Ephemeral key")
f.sequence = ProtoField.uint64("authdp.sequence", "Sequence number")
f.sealed = ProtoField.bytes("authdp.sealed", "Encrypted")
f.trailer = ProtoField.bytes("authdp.trailer", "Trailer or tag")
f.proof_number = ProtoField.uint16("authdp.signature.number", "Owner's number")
f.proof_name = ProtoField.string("authdp.signature.owner", "Owner")
f.proof = ProtoField.bytes("authdp.signature", "Owner's signature")
f.confirmed = ProtoField.uint16("authdp.confirmed", "Signature confirmed, number")
f.source = ProtoField.uint16("authdp.message.source", "From owner number")
f.port = ProtoField.uint16("authdp.message.port", "Port")
f.destination = ProtoField.string("authdp.message.destination", "To owner")
f.data = ProtoField.bytes("authdp.message.data", "Data")
f.malformed = ProtoField.string("authdp.malformed", "Malformed")

local REQUEST, ACKNOWLEDGE, REKEY, SEALED, ALL = 0x01, 0x02, 0x04, 0x08, 0x20
local HEADER, TRAILER, TAG, RECORD = 20, 16, 16, 9

local function has(flags, flag) return flags % (2 * flag) >= flag end

-- A field with its length in front: the offset behind it, or nil if it is cut short.
local function counted(buffer, offset, tree, field)
    if offset + 2 > buffer:len() then return nil end
    local size = buffer(offset, 2):uint()
    if offset + 2 + size > buffer:len() then return nil end
    if size == 0 then return offset + 2 end
    return offset + 2 + size, tree:add(field, buffer(offset + 2, size)), buffer(offset + 2, size)
end

-- What a request or an acknowledgement is made of; R has no parts.
local function parts(version, rekeys, item, range, key, signature)
    if version == 1 and signature == f.request_signature and range:len() > 16 then
        item:add(f.challenge_t, range(0, 16))
        item:add(f.sealed_s, range(16))
    elseif version == 2 and rekeys and range:len() == 40 then
        item:add(f.next_channel, range(0, 8))
        item:add(f.next_key, range(8))
    elseif version == 2 and not rekeys and range:len() == 96 then
        item:add(key, range(0, 32))
        item:add(signature, range(32))
    end
end

-- A body in clear; false where it is cut short.
local function body(buffer, count, tree)
    if buffer:len() < 2 then return false end
    local proofs, confirmed, offset = buffer(0, 1):uint(), buffer(1, 1):uint(), 2
    for _ = 1, proofs do
        if offset + 3 > buffer:len() then return false end
        local size = buffer(offset + 2, 1):uint()
        if offset + 3 + size > buffer:len() then return false end
        tree:add(f.proof_number, buffer(offset, 2))
        tree:add(f.proof_name, buffer(offset + 3, size))
        offset = counted(buffer, offset + 3 + size, tree, f.proof)
        if offset == nil then return false end
    end
    for _ = 1, confirmed do
        if offset + 2 > buffer:len() then return false end
        tree:add(f.confirmed, buffer(offset, 2))
        offset = offset + 2
    end
    for _ = 1, count do
        if offset + RECORD > buffer:len() then return false end
        local name, size = buffer(offset + 4, 1):uint(), buffer(offset + 5, 4):uint()
        local behind = offset + RECORD + name
        if behind + size > buffer:len() then return false end
        tree:add(f.source, buffer(offset, 2))
        tree:add(f.port, buffer(offset + 2, 2))
        tree:add(f.destination, buffer(offset + RECORD, name))
        if size > 0 then tree:add(f.data, buffer(behind, size)) end
        offset = behind + size
    end
    return true
end

local function sealed(buffer, version, flags, count, tree)
    if version == 2 then
        if buffer:len() < 8 + TAG then return false end
        tree:add(f.sequence, buffer(0, 8))
        buffer = buffer(8):tvb()
    elseif buffer:len() < TRAILER then
        return false
    end
    if has(flags, ALL) then
        tree:add(f.sealed, buffer())
        return true
    end
    local size = buffer:len() - TAG
    tree:add(f.trailer, buffer(size))
    return size > 0 and body(buffer(0, size):tvb(), count, tree)
end

function adp.dissector(buffer, pinfo, root)
    if buffer:len() < HEADER then return 0 end
    local version, flags = math.floor(buffer(0, 1):uint() / 16), buffer(1, 1):uint()
    local kind, count = types[buffer(0, 1):uint() % 16], buffer(2, 2):uint()
    if (version ~= 1 and version ~= 2) or kind == nil then return 0 end
    pinfo.cols.protocol = version == 1 and "ADP-1987" or "ADP"
    pinfo.cols.info = kind .. ", user messages: " .. count
    local tree = root:add(adp, buffer())
    tree:add(f.version, buffer(0, 1))
    tree:add(f.type, buffer(0, 1))
    local bits = tree:add(f.flags, buffer(1, 1))
    for _, field in ipairs({f.requests, f.acknowledges, f.rekeys, f.is_sealed, f.has_trailer, f.all,
                            f.has_checksum}) do
        bits:add(field, buffer(1, 1))
    end
    tree:add(f.count, buffer(2, 2))
    tree:add(f.channel, buffer(4, 8))
    tree:add(f.session, buffer(12, 8))
    local offset, item, range, rekeys = HEADER, nil, nil, has(flags, REKEY)
    if has(flags, REQUEST) then
        pinfo.cols.info:append(rekeys and ", asks for the next key" or ", request")
        offset, item, range = counted(buffer, offset, tree, f.request)
        if item ~= nil then
            parts(version, rekeys, item, range, f.request_key, f.request_signature)
        end
    end
    if offset ~= nil and has(flags, ACKNOWLEDGE) then
        pinfo.cols.info:append(rekeys and ", gives the next key" or ", acknowledgement")
        offset, item, range = counted(buffer, offset, tree, f.acknowledgement)
        if item ~= nil then
            parts(version, rekeys, item, range, f.acknowledgement_key,
                  f.acknowledgement_signature)
        end
    end
    local is_whole = offset ~= nil
    if is_whole and has(flags, SEALED) then
        is_whole = offset < buffer:len()
            and sealed(buffer(offset):tvb(), version, flags, count, tree)
    end
    if not is_whole then tree:add(f.malformed, "cut short") end
    return buffer:len()
end

DissectorTable.get("ip.proto"):add(253, adp)
DissectorTable.get("udp.port"):add_for_decode_as(adp)
